"""Operators that libopapi runs by CANN's name and attributes: what --singleop may name; gen_named_ops.py writes it."""

NAMES = frozenset(
    """
    Abs Acos Acosh ActiveRotatedFilter ActiveRotatedFilterGrad AdaptiveAvgPool2d AdaptiveAvgPool2dGrad Add Addcdiv
    Addcmul AffineGrid AnchorResponseFlags ApplyAdamD ApplyAdamV2 ApplyAdamW ArgMaxGrad ArgMaxV2 ArgMaxWithValue ArgMin
    ArgMinWithValue AsStrided Asin Asinh Atan Atan2 Atanh AttentionLnQKV AttentionScore AvgPool3D AvgPool3DGrad
    AvgPoolV2 AvgPoolV2Grad AxpyV2 AxpyWithSoftmaxAndDropOutDoMask BN3DTrainingReduce BN3DTrainingReduceGrad
    BN3DTrainingUpdate BN3DTrainingUpdateGrad BNInfer BNInferGrad BNTrainingReduce BNTrainingReduceGrad BNTrainingUpdate
    BNTrainingUpdateGrad BallQuery BatchMatMul BatchMultiClassNonMaxSuppression BatchNorm BinaryCrossEntropy
    BinaryCrossEntropyGrad Bincount BitwiseAnd BitwiseOr BitwiseXor BoundingBoxDecode BoundingBoxEncode BroadcastTo
    BroadcastToD CIoU CIoUGrad CTCLossV2 CTCLossV2Grad Cast Cdist CdistGrad Ceil CeluV2 ChamferDistance ClipByValue
    ClipByValueV2 Col2im ConcatD ConfusionTransposeD Conv2D Conv2DBackpropFilter Conv2DBackpropInput Conv2DTranspose
    Conv3D Conv3DBackpropFilter Conv3DBackpropInput Conv3DTranspose Cos Cosh Cross Cummax Cummin Cumprod Cumsum DIoU
    DIoUGrad DeformableOffsets DeformableOffsetsGrad DeformableRoiPool DeformableRoiPoolGrad
    DepthwiseConv2DBackpropFilter DepthwiseConv2DBackpropInput Diag DiagPart Div Dot DropOutDoMask DropOutDoMaskV3
    DropOutGenMaskV3 DropoutWithMulsAndSoftmaxGrad DynamicGRUV2 DynamicGRUV2Grad DynamicRNN DynamicRNNGrad DynamicRNNV2
    DynamicRNNV2Grad Elu EluGradV2 EmbeddingBag EmbeddingDenseGrad Equal Erf Erfc Erfinv Exp Expm1 Eye Fill FillDiagonal
    Flatten Floor FloorDiv FloorMod FusedBiasLeakyRelu FusedBiasLeakyReluGrad GEMM GIoU GIoUGrad GLU GLUGrad Gather
    GatherElements GatherV2 GatherV2D Gelu GeluGrad Greater GreaterEqual GridAssignPositive GridSampler2D
    GridSampler2DGrad GridSampler3D GridSampler3DGrad GroupNorm GroupNormSwish HardShrink HardShrinkGrad HardSigmoid
    HardSigmoidGrad HardSwish HardSwishGrad HardtanhGrad Histogram IFMR Identity Im2col Index IndexFillD IndexPutV2
    InplaceIndexAdd Invert Iou IsClose IsFinite KLDiv KlDivLossGrad L1LossGrad LayerNorm LayerNormGrad LayerNormV3
    LeakyRelu LeakyReluGrad LeftShift Lerp Less LessEqual LinSpace Log Log1p LogAddExp LogMatrixDeterminant LogSigmoid
    LogSigmoidGrad LogSoftmaxGrad LogSoftmaxV2 LogSpaceD LogicalAnd LogicalNot LogicalOr LpLoss LpNormReduceV2
    LpNormUpdateV2 MaskedFill MaskedFillRange MaskedScatter MaskedSelect MatMul MatMulV2 MatrixInverse
    MatrixTriangularSolve MaxPool3D MaxPool3DGrad MaxPoolGradWithArgmaxV1 MaxPoolV3 MaxPoolWithArgmaxV1 Maximum Minimum
    MirrorPad Mish MishGrad MlaProlog Mod MseLoss MseLossGrad Mul MultiHeadAttention MultiHeadAttentionGrad
    MultilabelMarginLoss MultinomialWithReplacement NLLLoss NLLLossGrad NMSWithMask NPUAllocFloatStatus
    NPUClearFloatDebugStatus NPUClearFloatStatus NPUClearFloatStatusV2 NPUGetFloatDebugStatus NPUGetFloatStatus
    NPUGetFloatStatusV2 NanToNum Neg NonMaxSuppressionV3 NonMaxSuppressionV4 NonZero NormalizeBatch NotEqual OneHot
    OneHotD OnesLike PRelu PReluGrad PSAMask PSAMaskGrad PSROIPoolingGradV2D PSROIPoolingV2 Pack Pad PadV3 PadV3Grad
    Pdist PointsInPolygons Pow Qr ROIAlign ROIAlignGrad RandomChoiceWithMask Range RealDiv Reciprocal ReduceAll
    ReduceAny ReduceLogSumExp ReduceMax ReduceMean ReduceMeanD ReduceMin ReduceProd ReduceStdV2Update ReduceStdWithMean
    ReduceSum Relu ReluGrad Renorm RepeatInterleave ResizeBilinearV2 ResizeBilinearV2Grad ResizeD ResizeGradD
    ResizeNearestNeighborV2 ResizeNearestNeighborV2Grad ReverseV2 RightShift RoiAlignRotated RoiAlignRotatedGrad
    RoiPoolingGradWithArgMax RoiPoolingWithArgMax Roll RotatedBoxDecode RotatedBoxEncode RotatedFeatureAlign
    RotatedFeatureAlignGrad RotatedIou RotatedNMS RotatedOverlaps Round Rsqrt ScaledMaskedSoftmax
    ScaledMaskedSoftmaxGrad ScatterElements ScatterNdAdd ScatterNdUpdate ScatterUpdate SearchSorted Select Selu
    ShuffleChannel Sigmoid SigmoidCrossEntropyWithLogitsGradV2 SigmoidCrossEntropyWithLogitsV2 SigmoidFocalLoss
    SigmoidFocalLossGrad SigmoidGrad Sign SignBitsPack SignBitsUnpack SilentCheck SiluGrad Sin Sinh Slice
    SmoothL1LossGradV2 SmoothL1LossV2 SoftMarginLoss SoftMarginLossGrad SoftShrink SoftShrinkGrad
    SoftmaxCrossEntropyWithLogits SoftmaxFocalLoss SoftmaxFocalLossGrad SoftmaxGrad SoftmaxV2 SoftplusV2 SoftplusV2Grad
    Sort SortV2 Sqrt Square StatelessBernoulli StatelessDropOutGenMask StatelessRandomNormalV2 StatelessRandomUniformV2
    StatelessRandperm StrideAdd StridedSlice Sub SubSample Svd Swish SwishGrad Tan Tanh TanhGrad TensorEqual
    ThreeInterpolate ThresholdGradV2D ThresholdV2D Tile TopKV2 Trace TransData Transpose TransposeD Tril Triu Trunc
    UniqueConsecutive UniqueWithCountsAndSorting UpsampleNearest3d UpsampleNearest3dGrad UpsampleTrilinear3d
    UpsampleTrilinear3dGrad ViewCopy Voxelization Xlogy YoloBoxesEncode ZerosLike
    """.split()
)
